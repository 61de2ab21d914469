# SPDX-License-Identifier: Apache-2.0
set(ESPALIER_SOURCES headline.cpp page.cpp page_plot.cpp page_script.cpp page_style.cpp plots.cpp
    report.cpp run_data.cpp series.cpp text.cpp
    validation_page.cpp)
