// Package scope reads the scopes of OAuth (RFC 6749, 3.3).
package scope

import (
	"slices"
	"strings"
)

// Valid reports whether text is a scope: printable ASCII without space, quote and backslash.
func Valid(text string) bool {
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return text != ""
}

// Union returns the scopes of all lists, each once, in the order of their first mention. What is no
// scope is left out.
func Union(lists ...[]string) []string {
	var all []string
	for _, scope := range slices.Concat(lists...) {
		if Valid(scope) && !slices.Contains(all, scope) {
			all = append(all, scope)
		}
	}
	return all
}

// Parse splits a list of scopes, each once. What is no scope is left out.
func Parse(text string) []string { return Union(strings.Split(text, " ")) }
