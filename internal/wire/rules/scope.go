package rules

// This file reads the scopes of OAuth (RFC 6749, 3.3).

import (
	"slices"
	"strings"
)

// IsScopeList reports whether text is a scope: printable ASCII without space, quote and backslash.
func IsScopeList(text string) bool {
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return text != ""
}

// UniteScopes returns the scopes of all lists, each once, in the order of their first mention. What
// is no scope is left out.
func UniteScopes(lists ...[]string) []string {
	var all []string
	for _, scope := range slices.Concat(lists...) {
		if IsScopeList(scope) && !slices.Contains(all, scope) {
			all = append(all, scope)
		}
	}
	return all
}

// ParseScopes splits a list of scopes, each once. What is no scope is left out.
func ParseScopes(text string) []string { return UniteScopes(strings.Split(text, " ")) }
