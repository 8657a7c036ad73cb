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
// [Questions] is a built-in page, a [roundtrip.QuestionPage]: it shows a server's forms to users
// whose clients do not. It renders every form of elicitation without scripts, and validates input
// like a client's answer. A question is shared by all calls that ask it; its answer is taken once.
// The questions of one call form a chain of rows in the store: position, takers, and returned
// answers. [QuestionOptions].Template changes look and wording.
//
// # Checks
//
// The function is called only for the principal that was asked, identified by the host's own login,
// and only while the visit is open. Everybody else gets a uniform text, whether or not the visit
// exists. A GET changes nothing, so previews and prefetching are harmless. A POST needs the page's
// Origin and [Visit].Token, bound to the visit, the principal and a cookie. [Visit.Finish] succeeds
// once, over all tabs and replicas.
//
// # Stored data
//
// A visit and its answer are two states of a [store.StateStore], sealed with derived keys, under
// digests as ids. The answer is stored nowhere else: neither in the client's sealed state nor in
// logs or errors. Both are kept until they expire, even after the call has ended: the visit can
// then be finished, but its answer is not read.
package visit
