// SPDX-License-Identifier: Apache-2.0
// espalier report: the page of a run, and its headline numbers on the terminal.
#include "report/report.hpp"

#include <memory>

#include "commands/verbs.hpp"
#include "core/log.hpp"

namespace espalier {

void add_report(CLI::App& app, Action& action) {
  struct Request {
    std::string run, out;
    bool json = false;
  };
  const auto request = std::make_shared<Request>();
  CLI::App* verb = app.add_subcommand("report", "Write the HTML report of a run");
  verb->add_option("RUN", request->run, "Folder of the run (run.directory)")->required();
  verb->add_option("--out", request->out, "The page to write; default RUN/report.html");
  verb->add_flag("--json", request->json, "Print the headline numbers as one JSON object");
  verb->callback([request, &action] {
    action = [request] {
      const ReportResult result = write_report(request->run, request->out);
      if (request->json) {
        print_line(headline_json(result.headline));
      } else {
        print_line(headline_text(result.headline));
        print_line("report           " + result.path);
      }
      return 0;
    };
  });
}

}  // namespace espalier
