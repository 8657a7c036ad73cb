// Package bearer protects a server with OAuth: it verifies the access tokens of requests, tells
// clients where to get one, and what is missing in the one they have (basic/authorization).
//
//	guard, err := bearer.New(bearer.Options{
//		Resource: "https://mcp.example.com/mcp",
//		Issuers:  []bearer.Issuer{{URL: "https://login.example.com"}},
//	})
//	if err != nil {
//		return err
//	}
//	endpoint, err := serverhttp.New(srv, &serverhttp.Options{Authority: guard})
//	if err != nil {
//		return err
//	}
//	mux.Handle("/mcp", endpoint)
//	path, metadata := guard.Metadata()
//	mux.Handle(path, metadata)
//
// A client without a token gets 401 with the address of the metadata, finds the issuer there, logs
// its person in and comes back. Tools, prompts and resources name the scopes that they need
// (server.Tool.Scopes); a token that lacks one gets 403 with all that are needed, and the client
// asks its person for more.
//
// # What is checked
//
// Of a JSON Web Token: that its issuer is one of [Options].Issuers, that its algorithm is
// asymmetric and its signature is of a key that the issuer publishes, that it is an access token
// and not an ID token, that it has not expired, and that it was issued for this server: its
// audience has Options.Resource byte for byte. Of any other token, by asking the issuer (RFC 7662),
// the same but for the signature.
//
// What a request says of hosts, keys or issuers selects among what is configured and is never
// followed. A token in the URL is not looked at.
//
// # When an issuer cannot be reached
//
// Its keys are used on for a day. A token that cannot be judged gets 503 and not 401: clients
// throw tokens away that are refused, so that an outage of the issuer would log everybody out.
//
// # Whose state it is
//
// The principal of a request is the issuer and the subject of its token. It binds the state of
// round trips and sessions, so a token that was refreshed, or has more scopes, goes on where the
// older one was, and another person's does not. Handlers find the claims with [TokenFrom]. The
// token itself they cannot get: it is for this server, and must not be passed on to others.
package bearer
