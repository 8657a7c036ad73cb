// Package conformance holds the library against the protocol's official
// conformance suite, and judges what the suite reports.
//
// run.sh fetches the suite, starts the subjects (examples/everything and
// examples/everything-client) and collects results; package verdict, a program,
// judges them with what is here:
//
//	internal/conformance/run.sh            # each leg once
//	internal/conformance/run.sh -n 20      # twenty times in a row
//	internal/conformance/run.sh -u         # write the lists anew
//	internal/conformance/run.sh -s URL server-2025-11-25    # a server that runs already
//
// # Legs and lists
//
// A leg is one side of one revision, such as server-2026-07-28. One more,
// client-backcompat, has what the suite wants of clients toward servers of
// 2025-03-26, which knew no metadata of protected resources, and another one,
// client-extensions, what it does not require: logins without a person. Each has a list
// of the checks that must pass, by scenario, id and name, because a scenario of
// the suite may pass without having looked at anything: some of its checks are
// made only if there is something to see. A check on the list that is missing
// is a failure, and so is one that fails, warns or is skipped without the list
// saying so. What is left out of a leg is left out by name, with a reason.
//
// # Control
//
// After the runs the server is stopped, the client replaced by a program that
// does nothing, and the suite runs once more. Every scenario on the lists must
// fail then: one that does not would not notice if the subject broke either.
package conformance
