// Package oauth logs a person in at MCP servers that want OAuth (basic/authorization), and keeps
// their tokens fresh.
//
//	login, err := oauth.New(endpoint, &oauth.Options{
//		Interaction: &oauth.Loopback{Prompt: os.Stderr},
//		Client:      oauth.ClientInfo{Name: "My program"},
//	})
//	if err != nil {
//		return err
//	}
//	transport, err := clienthttp.New(endpoint, &clienthttp.Options{Authorizer: login})
//
// The first request goes out without a token. The server refuses it and says where its metadata
// is; a [Source] finds the authorization server there, has the person log in with their browser,
// and the request is sent again. Later tokens are refreshed before they end, and a tool that needs
// more scopes leads to another login for these.
//
// # What is checked
//
// That the metadata is about this endpoint, and that of the authorization server about it, byte
// for byte; that it supports PKCE with S256, which is always used; that what the browser comes back
// with belongs to the login and comes from the authorization server that was asked. A document
// that is refused is never a reason to try a weaker source. Tokens are asked for, and sent to, this
// endpoint alone. Secrets of pre-registered clients go to the issuer that [Registration] names.
//
// # Who is asked, and how often
//
// Whatever the number of requests, one login, one refresh and one registration runs at a time,
// also among processes that share a [FileStore]. It ends with the last request that waits for it
// and not with the first. What a person has refused is not asked for again within five minutes, an
// operation leads to two logins for more scopes at most, and a server that refuses a token which
// was just issued leads to none.
//
// # What is kept
//
// Refresh tokens and registrations, in a [Store]: in memory, or with [NewFileStore] in sealed
// files. Failures forget nothing, but for two: a refresh token that is not valid any more
// (invalid_grant), and a registration that is not known any more (invalid_client).
//
// # Addresses
//
// A server names the authorization server, and so makes the client ask addresses of its choice. It
// asks public ones by https. Addresses of the private network are asked only for endpoints that are
// on it or on this machine, and this machine, where http is allowed as well, only for endpoints
// that are on it. Link-local addresses, among them the metadata services of clouds, are never
// asked. The address is checked when it is dialled. Behind an HTTP proxy names are resolved by the
// proxy: it has to refuse what must not be reached.
//
// # Hosts whose person is elsewhere
//
// A web application or a gateway has no browser at hand. Without an Interaction a call that needs a
// login fails with a [*LoginRequiredError]; [Source.Begin] then makes a page for the person, and
// [Source.Finish] takes what their browser comes back with, also in another process.
package oauth
