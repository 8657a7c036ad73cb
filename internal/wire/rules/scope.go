package rules

// This file reads OAuth scopes (RFC 6749, 3.3).

import (
	"slices"
	"strings"
)

// IsScopeList reports whether text is one scope: printable ASCII except space, " and \.
func IsScopeList(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(c rune) bool {
		return c <= ' ' || c > '~' || c == '"' || c == '\\'
	})
}

// UniteScopes returns the distinct scopes of all lists in order, without invalid scopes.
func UniteScopes(lists ...[]string) []string {
	var all []string
	for _, scope := range slices.Concat(lists...) {
		if IsScopeList(scope) && !slices.Contains(all, scope) {
			all = append(all, scope)
		}
	}
	return all
}

// ParseScopes splits a list of scopes at spaces, without duplicates and invalid scopes.
func ParseScopes(text string) []string { return UniteScopes(strings.Split(text, " ")) }
