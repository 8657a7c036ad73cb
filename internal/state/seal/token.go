package seal

import (
	"encoding/base64"
	"strings"
)

// encoding refuses padding, tail bits, and bytes outside its alphabet; it skips CR and LF.
var encoding = base64.RawURLEncoding.Strict()

const headerSize = 2

// parts are a decoded token's fields, checked for shape only. They alias the buffer.
type parts struct {
	id, salt, nonce, sealed []byte
}

// parse decodes and splits a token. It returns buf, possibly grown, for reuse. It uses no key.
func parse(buf []byte, token string, maxBytes int) (parts, []byte, error) {
	if len(token) > maxBytes {
		return parts{}, buf, ErrTooLong
	}
	// The decoder skips these. Checking all bytes here would cost more than the cryptography.
	if strings.IndexByte(token, '\n') >= 0 || strings.IndexByte(token, '\r') >= 0 {
		return parts{}, buf, ErrAlphabet
	}
	// Text and bytes are adjacent in buf: decoding a buffer onto itself is not documented to work.
	buf = append(buf[:0], token...)
	buf, err := encoding.AppendDecode(buf, buf)
	if err != nil {
		return parts{}, buf, whyNotBase64(token)
	}
	p, err := split(buf[len(token):])
	return p, buf, err
}

// whyNotBase64 returns why encoding refused token.
func whyNotBase64(token string) error {
	for i := range len(token) {
		if !inAlphabet(token[i]) {
			return ErrAlphabet
		}
	}
	if len(token)%4 == 1 { // six spare bits: less than a byte
		return ErrTruncated
	}
	return ErrNonCanonical
}

// split splits a token's bytes, which are not authenticated yet.
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

func inAlphabet(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' ||
		c == '_'
}
