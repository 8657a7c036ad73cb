// Package wiretest records what two peers say to each other, keeps it as text, and holds it against
// the published schemas.
//
// A test puts a [Recorder] under its HTTP client, or feeds a [Log] from a stream or an in-process
// peer, and then compares the messages with a transcript and with the revision's schema:
//
//	recorder := &wiretest.Recorder{Base: http.DefaultTransport}
//	... run the client over recorder ...
//	got := recorder.Messages()
//	wiretest.Golden(t, "testdata/confirm.txtar", got)
//	wiretest.Conform(t, "2026-07-28", got)
//
// Which methods and members each revision has, the published schemas decide. Without them nothing is
// checked, and a test fails where the variable CI is set.
//
// A transcript is a text archive with one file a message, in the order in which they were said; the
// archive's comment is the place for a sentence about what it shows. States differ from run to run,
// and become numbered placeholders, the same state the same placeholder, so that an echo can be seen
// to be one:
//
//	-- 2 server --
//	200 OK
//	Content-Type: application/json
//
//	{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"<state 1>"}}
//	-- 3 client --
//	POST /mcp
//	...
//
// Run the tests with -update to rewrite the transcripts, then read the difference as carefully as
// code.
//
// The package is for tests alone. What was said is recorded as it was said.
package wiretest
