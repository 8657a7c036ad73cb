// Package bearer makes an MCP server an OAuth resource server (basic/authorization): it verifies
// the access tokens of requests, serves the metadata that leads clients to the authorization
// server, and names the scopes that a token lacks.
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
// A client without a token gets 401 with the URL of the metadata, which names the issuer for the
// login. Tools, prompts and resources name the scopes that they need (server.Tool.Scopes). A token
// that lacks one gets 403 with all required scopes, and the client requests them.
//
// # Checks
//
// A JSON Web Token is accepted if its issuer is one of [Options].Issuers, its algorithm is
// asymmetric, its signature is by a key of the issuer, it is an access token and not an ID token,
// it has not expired, and its audience has Options.Resource byte for byte (RFC 9068, section 4). A
// token of an issuer with [Introspection] is sent to the issuer (RFC 7662); the same checks apply
// to the response, except those of algorithm and signature.
//
// Claims and headers of a token only select among the configured issuers and their keys: URLs in
// them are never requested. A token in the URL of a request is not read.
//
// Fields of the [Issuer] allow deviations, for that issuer alone: other audiences or none, scopes
// from a function, any tenant, opaque tokens that the host looks up, tokens without a user.
// [EntraID] is preconfigured for Entra ID.
//
// # When an issuer cannot be reached
//
// Its keys are used for up to a day. A token that cannot be verified then gets 503 and not 401:
// clients drop a refused token, so an outage of the issuer would log everybody out.
//
// # Principals
//
// The principal of a request is the issuer and subject of its token, or the result of
// Options.Subject. Round trips and sessions belong to a principal: a refreshed token, or one with
// more scopes, continues them; another user's token does not. Handlers get the claims with
// [TokenFrom], and never the token, which must not be passed on to another server
// (basic/authorization, "Token Handling").
//
// # Concurrency
//
// The methods of a [ResourceServer] may be called concurrently. Concurrent requests with the same
// token share one verification, and requests for the same keys share one fetch.
package bearer
