package redact

import "strings"

// maskCredentials masks the text after a word that announces a credential, as spelled in errors:
// "Bearer abc", "password=abc", `"token":"abc"`. It finds credentials of a handler's own calls,
// which no list of secrets has.
func maskCredentials(text string) string {
	lower := strings.ToLower(text)
	if len(lower) != len(text) { // a letter whose other case is longer
		lower = text
	}
	var b strings.Builder
	done := 0
	for i := 0; i < len(lower); {
		start, end := credentialAt(lower, i)
		if end <= start {
			i++
			continue
		}
		b.WriteString(text[done:start])
		b.WriteString(Mask)
		i, done = end, end
	}
	b.WriteString(text[done:])
	return b.String()
}

// credentialAt returns the range of the credential announced by a word at i, or zeros.
func credentialAt(s string, i int) (start, end int) {
	if i > 0 && (s[i-1] >= 'a' && s[i-1] <= 'z' || s[i-1] >= '0' && s[i-1] <= '9') {
		return 0, 0 // within a word
	}
	for _, scheme := range [...]string{"bearer ", "basic ", "dpop "} {
		if strings.HasPrefix(s[i:], scheme) {
			start = i + len(scheme)
			// Plain words may follow, too: "basic setup", "bearer of news".
			end = valueEnd(s, start)
			if strings.ContainsAny(s[start:end], "0123456789._=+/-") || end-start > 20 {
				return start, end
			}
		}
	}
	if strings.HasPrefix(s[i:], "eyj") { // a JSON object in base64: a signed token
		if end = valueEnd(s, i); strings.Contains(s[i:end], ".") {
			return i, end
		}
	}
	if i > 0 && (s[i-1] == '_' || s[i-1] == '-') {
		return 0, 0 // within a name
	}
	name := s[i : len(s)-len(strings.TrimLeftFunc(s[i:], isNameRune))]
	if start = valueStart(s, i+len(name)); start == 0 {
		return 0, 0
	}
	// The last two names may be form fields, but in errors secrets follow them.
	if FindSecretName(name) != "" || strings.HasPrefix(name, "authorization") || name == "session" {
		return start, valueEnd(s, start)
	}
	return 0, 0
}

func isNameRune(r rune) bool {
	return 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '_' || r == '-'
}

// valueStart returns where a name's value starts (after "=", or ":" if quoted), or 0.
func valueStart(s string, i int) int {
	quoted := i < len(s) && (s[i] == '"' || s[i] == '\'')
	if quoted {
		i++
	}
	rest := strings.TrimLeft(s[i:], " ")
	if rest == "" || rest[0] != '=' && !(quoted && rest[0] == ':') {
		return 0
	}
	return len(s) - len(strings.TrimLeft(rest[1:], ` "'`))
}

func valueEnd(s string, i int) int {
	value := s[i:]
	if n := strings.IndexAny(value, " \t\r\n\"'`,;&)}]<>"); n >= 0 {
		value = value[:n]
	}
	return i + len(strings.TrimRight(value, ":.")) // of the sentence
}
