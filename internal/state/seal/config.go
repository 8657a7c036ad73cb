package seal

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// ParseKeyring returns the keyring of a configuration text,
//
//	id:secret,id:secret
//
// whose first key is the primary. Secrets are base64 in either alphabet, with or without padding.
// White space is ignored. An empty entry is an error: skipping the first would silently make an old
// key the primary. Errors name an entry by position and quote nothing of the text.
func ParseKeyring(text string) (*Keyring, error) {
	text = strings.Join(strings.Fields(text), "")
	if text == "" {
		return nil, errors.New("no key is configured")
	}
	var keys []Key
	position := make(map[string]int)
	for i, entry := range strings.Split(text, ",") {
		key, err := parseEntry(entry)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", i+1, err)
		}
		if first, dup := position[key.id]; dup {
			return nil, fmt.Errorf("entry %d has the key id of entry %d", i+1, first)
		}
		position[key.id] = i + 1
		keys = append(keys, key)
	}
	return NewKeyring(keys[0], keys[1:]...)
}

func parseEntry(entry string) (Key, error) {
	if entry == "" {
		return Key{}, errors.New("is empty")
	}
	id, text, ok := strings.Cut(entry, ":")
	if !ok {
		return Key{}, errors.New("has no ':' between key id and secret")
	}
	if err := checkID(id); err != nil {
		return Key{}, err
	}
	if strings.Contains(text, ":") {
		return Key{}, errors.New("has a second ':'; entries are separated by commas")
	}
	secret, err := decodeSecret(text)
	if err != nil {
		return Key{}, err
	}
	defer clear(secret)
	if err := checkSecret(secret); err != nil {
		return Key{}, err
	}
	return NewKey(id, secret)
}

// decodeSecret reads any usual base64. Stray tail bits, a sign of a lost character, are refused.
func decodeSecret(text string) ([]byte, error) {
	if strings.HasSuffix(text, "=") && len(text)%4 != 0 {
		return nil, errors.New("secret is not valid base64: wrong padding")
	}
	text = strings.TrimRight(text, "=")
	text = strings.NewReplacer("-", "+", "_", "/").Replace(text)
	secret, err := base64.RawStdEncoding.Strict().DecodeString(text)
	if err != nil {
		// err would say at which byte, and the text is secret.
		return nil, errors.New("secret is not valid base64")
	}
	return secret, nil
}
