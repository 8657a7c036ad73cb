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
// The published schemas decide which methods and members each revision has. Without them nothing is
// checked, and a test fails where the variable CI is set.
//
// A transcript is a text archive with one file a message, in the order in which they were said; the
// comment of the archive says what it shows. States differ from run to run, and become numbered
// placeholders: equal states have equal ones. Run the tests with -update to rewrite the
// transcripts, and read the difference.
package wiretest
