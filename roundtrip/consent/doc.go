// Package consent records what people were asked and what they decided, so that a host can prove it
// later: the words and the form of a question, whom it was put to, by which way and when, and the
// answer.
//
// A [Recorder] is an observer beside others:
//
//	recorder, err := consent.NewRecorder(&consent.Options{Key: key, Sink: appendToTable})
//	...
//	srv, err := server.New(&server.Options{Observer: event.Observers(log, recorder), ...})
//
// It signs a record when a question goes out, when it is answered, and when it turns out that an
// answer does not fit its form. [Verify] checks the signatures and joins the records. They may come
// from several replicas that have the same key, in any order. Questions for forms and for visits of
// a URL are recorded. Those for messages of a model and for directories are not, because no person
// need see them. Nor are answers to questions of which nothing proves that they were asked.
//
// # Records
//
// A record is one line: the flattened JSON serialization of a JSON Web Signature (RFC 7515) with
// Ed25519 (RFC 8037), whose payload is a [Record] as JSON. So other programs can verify it, and a
// database may store it as JSON. Nothing in it is encrypted: it has the principal and the words of
// the question, and with [Options].IncludeAnswers the answer.
//
// # Answers
//
// The answer in a record is what the person sent, before it was compared with the form and before
// defaults were filled in. Without [Options].IncludeAnswers the record has a digest. A plain digest
// of yes or no could be guessed, so it is taken with a salt, which follows from the key of the host
// and a random number in the record. Only who has the key can compute the salt. [Record.Salt] gives
// it to prove the content of this one answer to somebody else, and [Record.Matches] checks it.
package consent
