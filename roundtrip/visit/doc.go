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
// # Questions
//
// [Questions] is a page that is built in. It shows the forms that a server asks with to people whose
// clients do not show them: a [roundtrip.QuestionPage]. It renders every form that elicitation has,
// without scripts, and checks what is entered as an answer of a client. A question stays open for
// all calls that ask it, and its answer is taken once. Rows in the store form a chain of the
// questions that the same call asks one after the other: where it is, who has which answer, and
// what was given back. [QuestionOptions].Template is for pages with another look or other words.
//
// # Checks
//
// The function is called only for the principal that was asked, identified by the host's own login,
// and only while the visit is open. Everybody else gets the same text for a link that was
// forwarded, guessed, mistyped or forgotten, and does not learn whether the visit exists. A GET
// changes nothing, so that previews and prefetching do no harm. A POST needs the Origin of the page
// and [Visit].Token, which is bound to the visit, the principal and a cookie of the browser.
// [Visit.Finish] succeeds once, over all tabs and replicas.
//
// # Stored data
//
// Two states of a [store.StateStore], sealed with derived keys: what the handler says about the
// visit, and what the page answers. Their ids are digests. The answer is stored nowhere else: not
// in the sealed state that the client carries, and not in logs or errors. Both are kept until their
// time is over, also after the call has ended: the visit can then be finished, but nobody reads the
// answer.
package visit
