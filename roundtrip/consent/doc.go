// Package consent records which questions users were asked and how they decided, so that a host can
// prove it later: wording and form, who was asked, by which way and when, and the answer.
//
// A [Recorder] is an [event.Observer]:
//
//	recorder, err := consent.NewRecorder(&consent.Options{Key: key, Sink: appendToTable})
//	...
//	srv, err := server.New(&server.Options{Observer: event.Observers(log, recorder), ...})
//
// It signs a record when a question goes out, when it is answered, and when the answer turns out
// not to fit the form. [Verify] checks the signatures and joins the records of any number of
// replicas with the same key, in any order. Only forms and visits to URLs are recorded: users need
// not see sampling and roots questions. Unsolicited answers are not recorded.
//
// # Records
//
// A record is one line: the flattened JSON serialization of a JSON Web Signature (RFC 7515) with
// Ed25519 (RFC 8037), whose payload is a [Record] as JSON. Nothing in it is encrypted: it contains
// the principal, the question, and with [Options].IncludeAnswers the answer.
//
// # Answers
//
// The recorded answer is the user's input, before validation and defaults. Without
// [Options].IncludeAnswers it is a digest, salted because a digest of yes or no could be guessed.
// The salt is derived from the host's key and a random number in the record. [Record.Salt] reveals
// it to prove this one answer to somebody else; [Record.Matches] checks it.
package consent
