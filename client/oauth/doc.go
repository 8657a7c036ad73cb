// Package oauth makes an MCP client an OAuth client (basic/authorization): it logs a person in at
// the authorization server of an MCP server, and refreshes their tokens.
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
// The server refuses the first request, which has no token, with a challenge that has the URL of
// its metadata. A [Source] finds the authorization server there and opens the browser for a login;
// then the request is sent again. Later the token is refreshed before it expires, and a tool that
// needs more scopes leads to another login.
//
// # Checks
//
// The metadata of the server must be about this endpoint, and that of the authorization server
// about the issuer that was named, byte for byte. The authorization server must support PKCE with
// S256 (RFC 7636), which is always used. The authorization response must have the state of the
// login, and the issuer if the authorization server sends one (RFC 9207); see Options.RequireIss.
// After a refused document no other place is tried. A [Provider] allows deviations of one issuer.
//
// Tokens are requested for this endpoint alone (RFC 8707), and sent to it alone. The secrets of
// pre-registered clients are sent to the issuer of their [Registration] alone.
//
// # Logins
//
// However many calls wait, one login, refresh or registration is in flight at a time, also among
// processes that share the files of a [NewFileStore]. It is cancelled when the last call that waits
// for it ends. A denied login is not requested again within five minutes, and one that failed in
// another way not within a minute; after three failures no other login begins. An operation leads
// to two logins for more scopes at most. A server that refuses a token which was just issued leads
// to no other login.
//
// # Programs without a person
//
// With Options.Machine tokens are requested by [ClientCredentials], by the assertion of a platform
// ([Workload]), or for a person who has logged in at their company ([Enterprise]).
//
// # The store
//
// A [TokenStore] keeps tokens and dynamic registrations: in memory, or with [NewFileStore] in
// sealed files. invalid_grant removes a refresh token, and invalid_client a registration. No other
// failure changes a login, and none needs a Logout: a refresh that is refused, or that fails three
// times without a readable response, is followed by a login.
//
// # Errors
//
// A program goes on after four errors: [*LoginRequiredError] (see below), [*InsufficientScopeError]
// (the person lacks a permission), [*TokenError] (with Retryable, try again later), and
// [ErrDenied]. For the other failures of a login there is one type, [*Error]: its text is for
// people, and its Kind names the party that has to change something. Errors of hooks and of
// contexts are returned unchanged.
//
// # Addresses
//
// An MCP server names its authorization server, and so the addresses to which the client sends
// requests. Without Options.HTTPClient, public addresses are reached by https; private addresses
// only for endpoints on a private network or on this machine; this machine only for endpoints on
// it, also by http; and link-local addresses, with the metadata services of clouds, never.
// Addresses are checked when they are dialled. An HTTP proxy of the environment resolves host
// names, so it must refuse those that must not be reached.
//
// # Hosts whose person is elsewhere
//
// Without an [Interaction], as in a web application or a gateway, a call that needs a login fails
// with a [*LoginRequiredError]. [Source.Begin] then returns the URL for the person's browser, and
// [Source.Finish] takes the URL with which it comes back, also in another process.
//
// # Concurrency and contexts
//
// The methods of a [Source] may be called concurrently. A call returns when its context ends. A
// request that redeems a code or uses a refresh token, which can be used once, is not cancelled
// with it: it ends within 30 seconds.
package oauth
