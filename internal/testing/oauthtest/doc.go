// Package oauthtest is the other side of authorization for tests of clients: an authorization
// server, a protected resource and a user's browser. Tokens and keys are those of package
// bearertest.
//
// The authorization server is strict: it refuses a request without the resource indicator, without
// S256, with two ways to authenticate or with a parameter twice. Deviations are a [Rewrite] of its
// requests and answers. It counts and keeps every request by its [Endpoint].
package oauthtest
