package redact

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

const (
	// LeftOut replaces a text that exceeds the bounds below, which are far above ordinary texts.
	LeftOut = "[text left out: too much to search for secrets]"

	maxText = 16 << 10 // longest text searched, in bytes
	// With maxText these bound the search to some milliseconds.
	mostSecrets    = 4096
	maxSecretBytes = 1 << 20
	// shortSecret is the length in bytes below which only whole words are masked.
	shortSecret = 4
)

// Secrets are the strings that a text is searched for. The zero value is empty.
type Secrets struct {
	list  []string
	bytes int
	full  bool
}

// AddText adds a trimmed string, unless it is longer than any searched text.
func (s *Secrets) AddText(text string) {
	text = strings.TrimSpace(text)
	if text == "" || len(text) > maxText || s.full {
		return
	}
	s.bytes += len(text)
	if len(s.list) >= mostSecrets || s.bytes > maxSecretBytes {
		s.full = true
		return
	}
	s.list = append(s.list, text)
}

// AddJSON adds strings and numbers in raw, not member names. Invalid JSON is added as text.
func (s *Secrets) AddJSON(raw []byte) {
	if len(raw) == 0 || s.full {
		return
	}
	var err error
	switch jsonx.KindOf(raw) {
	case jsonx.String:
		var text string
		err = json.Unmarshal(raw, &text)
		s.AddText(text)
	case jsonx.Number:
		s.AddText(string(raw))
	case jsonx.Object:
		err = jsonx.Members(raw, func(_, value []byte) error { s.AddJSON(value); return nil })
	case jsonx.Array:
		err = jsonx.Elements(raw, func(_ int, value []byte) error { s.AddJSON(value); return nil })
	}
	if err != nil {
		s.AddText(string(raw))
	}
}

// AddCredential adds a credential header, such as Authorization or Cookie, whole and in parts.
func (s *Secrets) AddCredential(value string) {
	s.AddText(value)
	separates := func(r rune) bool { return r == ' ' || r == ';' || r == ',' }
	for part := range strings.FieldsFuncSeq(value, separates) {
		s.addPart(part)
		if _, part, ok := strings.Cut(part, "="); ok { // of a cookie
			s.addPart(strings.Trim(part, `"`))
		}
	}
}

// addPart adds a part of a credential, unless it may be a scheme or a name.
func (s *Secrets) addPart(part string) {
	if len(part) > len("DPoP-Token") {
		s.AddText(part)
	}
}

// Redact returns text with the secrets masked, in every usual escaping, truncated, in base64 and in
// hexadecimal. It also masks text that looks like a credential.
func (s *Secrets) Redact(text string) string {
	if s.full || len(text) > maxText {
		return LeftOut
	}
	var forms, cut []string
	for _, secret := range s.list {
		if len(secret) <= len(text) {
			forms = appendSpellings(forms, secret)
		} else {
			cut = appendSpellings(cut, secret[:len(text)])
		}
	}
	begin := newBeginnings(append(cut, forms...))
	text = begin.maskEncoded(text)
	// The longest first: a secret may be part of another.
	slices.SortFunc(forms,
		func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	forms = slices.Compact(forms)
	short := slices.IndexFunc(forms, func(form string) bool { return len(form) < shortSecret })
	if short < 0 {
		short = len(forms)
	}
	pairs := make([]string, 0, 2*short)
	for _, form := range forms[:short] {
		pairs = append(pairs, form, Mask)
	}
	text = begin.maskCut(strings.NewReplacer(pairs...).Replace(text))
	for _, form := range forms[short:] {
		text = replaceWord(text, form)
	}
	return maskCredentials(text)
}

func appendSpellings(dst []string, secret string) []string {
	dst = append(dst, secret)
	quoted := strconv.Quote(secret)
	encoded, _ := json.Marshal(secret) // a string: never fails
	for _, other := range []string{
		quoted[1 : len(quoted)-1], string(encoded[1 : len(encoded)-1]),
		url.QueryEscape(secret), url.PathEscape(secret),
	} {
		if other != secret {
			dst = append(dst, other)
		}
	}
	return dst
}

// replaceWord replaces word if no letter or digit is adjacent.
func replaceWord(text, word string) string {
	var b strings.Builder
	for {
		i := strings.Index(text, word)
		if i < 0 {
			b.WriteString(text)
			return b.String()
		}
		before, _ := utf8.DecodeLastRuneInString(text[:i])
		after, _ := utf8.DecodeRuneInString(text[i+len(word):])
		b.WriteString(text[:i])
		if wordRune(before) && i > 0 || wordRune(after) && i+len(word) < len(text) {
			b.WriteString(word)
		} else {
			b.WriteString(Mask)
		}
		text = text[i+len(word):]
	}
}

func wordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
