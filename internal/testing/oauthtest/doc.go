// Package oauthtest is the other side of authorization for tests of clients: an authorization
// server, a protected resource and a person's browser. Its tokens, and their keys, are those of
// package bearertest.
//
// The authorization server is strict where a real one may be lenient: a request without the
// resource indicator, without S256, with two ways to authenticate or with a parameter twice is
// refused. Only a client without these mistakes can log in. What a server does otherwise is a
// [Rewrite] of its requests and answers. Every request is counted by its [Endpoint] and kept.
package oauthtest
