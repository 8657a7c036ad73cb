// Package visit serves pages to which handlers send users for input that must not pass through the
// client, such as a password or a payment (client/elicitation, "URL Mode Elicitation Requests").
//
//	var page *visit.Page[Database, Secret]
//
//	secret, err := page.Ask(ctx, "password", "Please enter the password.", Database{"orders"})
//
// [Page.Ask] stores the visit, shows the link, waits until the user has finished on the page, and
// returns the page's answer. The page is an [http.Handler] around a function of the author; any
// replica with the same store and keys can serve it. See "Links to visit" in roundtrip/README.md.
//
// # Questions
//
// [Questions] is a built-in page, a [roundtrip.QuestionPage]: it shows a server's forms, without
// scripts, for clients that do not, and validates input like answers. A call that waits for
// its user is kept, and taken once by the next one. [QuestionOptions].Template changes the page.
//
// # Checks
//
// Only the principal that was asked, identified by the host's own login, reaches the function, and
// only while the visit is open. Everybody else gets a uniform text. A GET changes nothing, so
// prefetching is harmless. A POST needs the page's Origin and [Visit].Token, bound to the visit,
// the principal and a cookie. [Visit.Finish] succeeds once, over all tabs and replicas.
//
// # Stored data
//
// A visit and its answer are two states of a [store.StateStore], sealed with derived keys, under
// digests as ids. The answer is stored nowhere else: not in the client's state, logs or errors.
// Both are kept until they expire, even after the call has ended.
package visit
