// Package wiretest records two peers' messages as text, and checks them against published schemas.
//
// A test puts a [Recorder] under its HTTP client, or feeds a [Log] from a stream or an in-process
// peer, and then compares the messages with a transcript and the revision's schema:
//
//	recorder := &wiretest.Recorder{Base: http.DefaultTransport}
//	... run the client over recorder ...
//	got := recorder.Messages()
//	wiretest.Golden(t, "testdata/confirm.txtar", got)
//	wiretest.Conform(t, "2026-07-28", got)
//
// The published schemas decide which methods and members each revision has. Without them nothing is
// checked, and a test fails if the variable CI is set.
//
// A transcript is a text archive with one file per message, in order; its comment describes it.
// States, which vary by run, become numbered placeholders, equal for equal states. Run tests with
// -update to rewrite transcripts, and review the difference.
package wiretest
