// Package oauth makes an MCP client an OAuth client (basic/authorization): it performs logins at
// the authorization server of an MCP server, and refreshes tokens.
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
// The server refuses the first request, which has no token, and names the URL of its metadata. A
// [Source] finds the authorization server there and opens the browser for a login; then the request
// is sent again. Later the token is refreshed before it expires, and a tool that needs more scopes
// leads to another login.
//
// # Checks
//
// The server's metadata must be about this endpoint, and the authorization server's must name the
// expected issuer, byte for byte. PKCE with S256 (RFC 7636) is always used, and the authorization
// server must support it. The authorization response must have the state of the login, and the
// issuer if the authorization server sends one (RFC 9207); see Options.RequireIss. A refused
// document ends the search. A [Provider] allows deviations of one issuer.
//
// Tokens are requested for this endpoint alone (RFC 8707), and sent to it alone. The secrets of
// pre-registered clients are sent to the issuer of their [Registration] alone.
//
// # Logins
//
// However many calls wait, one login, refresh or registration is in flight at a time, also among
// processes that share the files of a [NewFileStore]. It is cancelled when the last waiting call
// ends. A denied login is not requested again for five minutes, a login that failed otherwise for
// one minute; after three failures no other login begins. An operation leads to at most two logins
// for more scopes. A server's refusal of a just issued token does not lead to another login.
//
// # Programs without a user
//
// With Options.Machine tokens are requested by [ClientCredentials], by the assertion of a platform
// ([Workload]), or for a user who has logged in at their company ([Enterprise]).
//
// # The store
//
// A [TokenStore] keeps tokens and dynamic registrations: in memory, or with [NewFileStore] in
// sealed files. invalid_grant removes a refresh token, and invalid_client a registration. Other
// failures change no login and need no Logout: a refresh that is refused, or that fails three times
// without a readable response, is followed by a login.
//
// # Errors
//
// A program can recover from four errors: [*LoginRequiredError] (see below),
// [*InsufficientScopeError] (the user lacks a permission), [*TokenError] (if Retryable, try again
// later), and [ErrDenied]. Other login failures are an [*Error]: its text is for people, and its
// Kind names who has to change something. Errors of hooks and contexts are returned unchanged.
//
// # Addresses
//
// An MCP server names its authorization server, and so the addresses to which the client sends
// requests. Without Options.HTTPClient, public addresses are reached by https. Private addresses
// are reached only for endpoints on a private network or on this machine, and this machine only for
// endpoints on it, also by http. Link-local addresses, which include clouds' metadata services, are
// never reached. Addresses are checked when they are dialled. An HTTP proxy of the environment
// resolves host names itself, so it must refuse forbidden addresses.
//
// # Hosts without a local user
//
// Without an [Interaction], as in a web application or a gateway, a call that needs a login fails
// with a [*LoginRequiredError]. [Source.Begin] then returns the URL for the user's browser, and
// [Source.Finish] takes the callback URL, also in another process.
//
// # Concurrency and contexts
//
// The methods of a [Source] may be called concurrently. A call returns when its context ends. A
// request that redeems a code or uses a refresh token, which are single-use, is not cancelled with
// the context, but ends within 30 seconds.
package oauth
