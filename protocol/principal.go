package protocol

import "strconv"

// A Principal identifies the caller of a request. Sealed state is bound to it: state issued to one
// principal is refused from any other. The zero value is anonymous, a principal of its own.
type Principal struct {
	Issuer, Subject string // for example "iss" and "sub" of a token

	local bool
}

// LocalPrincipal is the principal of connections that belong to one user by construction: standard
// input and output, and calls within a process.
func LocalPrincipal() Principal { return Principal{local: true} }

// IsLocal reports whether p is [LocalPrincipal].
func (p Principal) IsLocal() bool { return p.local }

// Anonymous reports whether p is the zero value.
func (p Principal) Anonymous() bool { return p == Principal{} }

// String names the principal for logs; names are not unique, see [Principal.Key].
func (p Principal) String() string {
	switch {
	case p.local:
		return "local"
	case p.Anonymous():
		return "anonymous"
	case p.Issuer == "":
		return p.Subject
	}
	return p.Issuer + " " + p.Subject
}

// Key returns a unique text for stores and other processes. The principal itself can be a map key.
func (p Principal) Key() string {
	if p.local {
		return "local"
	}
	return strconv.Quote(p.Issuer) + " " + strconv.Quote(p.Subject)
}
