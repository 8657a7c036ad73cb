package oauthtest

import (
	"fmt"
	"net/http"
	"strings"
)

// Misbehave turns on a fault, until Behave.
func (r *Resource) Misbehave(f Fault) {
	switch change := r.challengeFaults()[f].(type) {
	case func(right string) []string:
		r.Challenge(func(_ int, right string) []string { return change(right) })
	case int:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.refusal = change
	default:
		r.enableFault(f, map[Endpoint]faults{ResourceMetadata: r.documentFaults()})
	}
}

// Faults returns all faults of a resource, sorted.
func (r *Resource) Faults() []Fault {
	return namesOf(map[Endpoint]faults{ResourceMetadata: r.documentFaults(),
		Call: r.challengeFaults()})
}

func (r *Resource) documentFaults() faults {
	const resource, servers = "resource", "authorization_servers"
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprintf("%s/tenant-%d", r.Origin, i)
	}
	upper := strings.ToUpper(r.Identifier)
	server := func(url string) func(*Document) { return Set(servers, []string{url}) }
	return faults{
		"resource of somebody else":                    Set(resource, "https://other.example/mcp"),
		"resource with a slash more":                   Set(resource, r.Identifier+"/"),
		"resource is a parent path":                    Set(resource, r.Origin+"/"),
		"resource in other letters":                    Set(resource, upper),
		"resource of another port":                     Set(resource, otherPort(r.Identifier)),
		"no resource":                                  remove(resource),
		"no authorization servers":                     remove(servers),
		"empty list of authorization servers":          Set(servers, []string{}),
		"authorization servers of a wrong type":        Set(servers, foreign),
		"a thousand authorization servers":             Set(servers, many),
		"authorization server is javascript":           server("javascript:alert(1)"),
		"authorization server without TLS":             server("http://attacker.example"),
		"authorization server at a link-local address": server("http://169.254.169.254"),
		"authorization server with a query":            server(r.Origin + "?tenant=1"),
		"resource metadata redirects":                  redirect(http.StatusFound, r.Origin),
		"resource metadata too large":                  pad,
		"resource metadata with a member twice":        add(servers, []string{foreign}),
		"resource metadata nested too deep":            nest,
		"resource metadata is a page":                  page(),
		"resource metadata fails with 503":             unavailable(),
		"resource metadata does not answer":            hanging(),
	}
}

// challengeFaults have functions that make the WWW-Authenticate headers from the right one, and the
// status of those that refuse every request.
func (r *Resource) challengeFaults() faults {
	metadata := func(address string) func(string) []string {
		return func(string) []string {
			return []string{fmt.Sprintf("Bearer resource_metadata=%q", address)}
		}
	}
	replace := func(old, new string) func(string) []string {
		return func(right string) []string { return []string{strings.Replace(right, old, new, 1)} }
	}
	return faults{
		"several schemes in one header (legal)": func(right string) []string {
			return []string{`Negotiate YIIabc==, Basic realm="a, b=\"c\"", ` + right +
				`, Digest realm="x", nonce="n"`}
		},
		"several headers (legal)": func(right string) []string {
			return []string{`Basic realm="x"`, right, "Negotiate"}
		},
		"commas in quotes (legal)": replace("Bearer ",
			`bearer realm="a, Basic scope=\"x\", b" , , `),
		"no challenge": func(string) []string { return nil },
		"challenge that ends in a quote": func(right string) []string {
			return []string{right + `, x="`}
		},
		"metadata of another origin":       metadata(foreign + r.opts.Location),
		"metadata at a link-local address": metadata("http://169.254.169.254" + r.opts.Location),
		"metadata address is javascript":   metadata("javascript:alert(1)"),
		"403 without an error code":        replace(`error="insufficient_scope", `, ""),
		"401 for ever":                     http.StatusUnauthorized,
		"insufficient_scope for ever":      http.StatusForbidden,
	}
}
