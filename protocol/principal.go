package protocol

import "strconv"

// A Principal is who a request comes from, as far as the host knows. It binds sealed state: state
// given to one principal is refused from any other. The zero value is anonymous, which is a
// principal of its own.
type Principal struct {
	// Issuer and Subject name an authenticated caller, for example the "iss" and "sub" claims of a
	// token. A principal with neither is anonymous.
	Issuer, Subject string

	local bool
}

// LocalPrincipal is the principal of connections that belong to one user by construction: standard
// input and output, and calls within a process.
func LocalPrincipal() Principal { return Principal{local: true} }

// IsLocal reports whether p is [LocalPrincipal].
func (p Principal) IsLocal() bool { return p.local }

// Anonymous reports whether nothing is known about the caller.
func (p Principal) Anonymous() bool { return p == Principal{} }

// String names the principal for logs. Two principals may have the same name; see [Principal.Key].
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

// Key returns a text that no other principal has, by which stores and other processes can know it.
// Within a process the principal itself can be the key of a map.
func (p Principal) Key() string {
	if p.local {
		return "local"
	}
	return strconv.Quote(p.Issuer) + " " + strconv.Quote(p.Subject)
}
