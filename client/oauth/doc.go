// Package oauth makes an MCP client an OAuth client (basic/authorization): it logs a person in at
// the authorization server of an MCP server, and keeps their tokens fresh.
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
// The first request has no token. The server refuses it, and its challenge has the URL of its
// metadata. A [Source] finds the authorization server there and has the person log in with their
// browser; then the request is sent again. Later the token is refreshed before it expires, and a
// tool that needs more scopes leads to another login for these.
//
// # Checks
//
// The metadata of the server must be about this endpoint, and that of the authorization server
// about the issuer that was named, byte for byte. The authorization server must support PKCE with
// S256 (RFC 7636), which is always used. The authorization response must have the state of the
// login, and the issuer if the authorization server sends one (RFC 9207); see Options.RequireIss.
// After a document that is refused, no other place is tried. A [Provider] names what another rule
// holds for at one issuer.
//
// Tokens are requested for this endpoint alone (RFC 8707), and sent to it alone. The secrets of
// pre-registered clients are sent to the issuer that [Registration] names.
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
// sealed files. Two failures remove something: invalid_grant a refresh token, and invalid_client a
// registration. All others leave the login as it is, but no state needs a Logout: a refresh that is
// refused, or that fails three times without a readable response, is followed by a login.
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
// An MCP server names its authorization server, and so chooses to which addresses the client sends
// requests. Without Options.HTTPClient these rules apply. Public addresses are reached by https.
// Private addresses are reached only for endpoints on a private network or on this machine. This
// machine is reached only for endpoints on it, also by http. Link-local addresses, among them the
// metadata services of clouds, are never reached. Addresses are checked when they are dialled. If
// the environment names an HTTP proxy, the proxy resolves host names: it must refuse those that
// must not be reached.
//
// # Hosts whose person is elsewhere
//
// A web application or a gateway has no browser at hand. Without an [Interaction] a call that needs
// a login fails with a [*LoginRequiredError]. [Source.Begin] then returns the URL for the person's
// browser, and [Source.Finish] takes the URL with which the browser comes back, also in another
// process.
//
// # Concurrency and contexts
//
// The methods of a [Source] may be called concurrently. A call returns when its context ends. A
// request that redeems a code or uses a refresh token is not cancelled with it, since neither can
// be used twice: it ends within 30 seconds.
package oauth
