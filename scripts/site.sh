# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2034  # site_value is used by eval
# To be sourced from the repository's root: sets and exports what Makefile.inc says, unless the
# environment says otherwise.
while IFS='=' read -r site_name site_value; do
  case $site_name in
    '' | [!A-Za-z_]* | *[!A-Za-z0-9_]*) continue ;;
  esac
  eval "[ -n \"\${$site_name+set}\" ] || $site_name=\$site_value; export $site_name"
done <Makefile.inc
unset site_name site_value
