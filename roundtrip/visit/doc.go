// Package visit serves the pages to which handlers send people: for what must not pass through the
// client, such as a password or a payment (client/elicitation, "URL Mode Elicitation Requests").
//
//	var page *visit.Page[Database, Secret]
//
//	secret, err := page.Ask(ctx, "password", "Please enter the password.", Database{"orders"})
//
// [Page.Ask] writes a row about the visit, shows the link, waits until the person has finished on
// the page, and returns what was entered there. The page is an [http.Handler] around a function of
// the author, which any replica can serve that has the same store and keys. The page of
// roundtrip/README.md, "Links to visit", shows both sides.
//
// # What is checked
//
// The function is called for the principal that was asked alone, as the host's own login knows the
// browser, and only while the visit is open. To everybody else the page tells nothing, not even
// that there is such a visit: a link that was forwarded, guessed, mistyped or forgotten leads to
// one and the same text. A GET changes nothing, so that previews and prefetching do no harm. A POST
// counts with the Origin of the page and with [Visit].Token, which is bound to the visit, the
// principal and a cookie of the browser. [Visit.Finish] succeeds once, over all tabs and replicas.
//
// # What is kept
//
// Two states of a [store.StateStore], sealed with keys that are derived for this purpose: what the
// handler says about the visit, and what the page answers. Their ids are digests. The answer goes
// from the page to the handler and nowhere else: not into the sealed state that the client carries,
// not into logs and errors. Both are kept until their time is over, also where nobody waits any
// more: a visit whose call has ended can be finished, and its answer is never read.
package visit
