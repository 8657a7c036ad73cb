package seal

import (
	"encoding/base64"
	"strings"
)

// encoding refuses padding, tail bits that are not zero, and every byte outside its alphabet but CR
// and LF, which it skips wherever they stand.
var encoding = base64.RawURLEncoding.Strict()

// headerSize is the size of what precedes the key id: the version and the length of the id.
const headerSize = 2

// parts are the fields of a decoded token. They alias the buffer it was decoded into, and have been
// checked for shape only.
type parts struct {
	id, salt, nonce, sealed []byte
}

// parse decodes token into buf and splits it. It returns buf, possibly grown, for the next use. No
// key has been looked at when it refuses.
func parse(buf []byte, token string, maxBytes int) (parts, []byte, error) {
	if len(token) > maxBytes {
		return parts{}, buf, ErrTooLong
	}
	// What the decoder would skip. It refuses the rest itself, and looking at each byte here as
	// well would take longer than all of the cryptography.
	if strings.IndexByte(token, '\n') >= 0 || strings.IndexByte(token, '\r') >= 0 {
		return parts{}, buf, ErrAlphabet
	}
	// The text and what it decodes to lie behind each other in buf: decoding a buffer onto itself
	// is not documented to work.
	buf = append(buf[:0], token...)
	buf, err := encoding.AppendDecode(buf, buf)
	if err != nil {
		return parts{}, buf, whyNotBase64(token)
	}
	p, err := split(buf[len(token):])
	return p, buf, err
}

// whyNotBase64 names the reason for which encoding has refused token.
func whyNotBase64(token string) error {
	for i := range len(token) {
		if !inAlphabet(token[i]) {
			return ErrAlphabet
		}
	}
	if len(token)%4 == 1 { // six bits behind the last whole group: less than a byte
		return ErrTruncated
	}
	return ErrNonCanonical
}

// split cuts the bytes of a token at its fields. Nothing here is authentic yet.
func split(raw []byte) (parts, error) {
	if len(raw) == 0 {
		return parts{}, ErrTruncated
	}
	if raw[0] != formatVersion { // before the length: another version has another layout
		return parts{}, ErrVersion
	}
	if len(raw) < headerSize {
		return parts{}, ErrTruncated
	}
	salt := headerSize + int(raw[1])
	nonce := salt + saltSize
	sealed := nonce + nonceSize
	if len(raw) < sealed+tagSize {
		return parts{}, ErrTruncated
	}
	return parts{
		id:     raw[headerSize:salt],
		salt:   raw[salt:nonce],
		nonce:  raw[nonce:sealed],
		sealed: raw[sealed:],
	}, nil
}

// inAlphabet reports whether c is a base64url character.
func inAlphabet(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' ||
		c == '_'
}
