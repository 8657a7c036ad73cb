package roundtrip

import (
	"context"
	"crypto/rand"
	"encoding/base64"
)

// nonceBytes makes a nonce too long to be guessed.
const nonceBytes = 24

// Nonce returns 32 random characters of base64url, the same in all rounds of a flowRun. It is
// for what is part of a question and must be fresh, such as the state of an OAuth request
// in the URL of a visit:
//
//	nonce, err := roundtrip.Nonce(ctx, "login")
//	if err != nil {
//		return err
//	}
//	err = roundtrip.AskURL(ctx, "login", "Sign in", loginURL+"?state="+nonce)
//
// A handler that draws random bytes itself asks something else each time it runs, and its
// answer belongs to a question that is not asked any more. Nonce is a [Memo] under a key of
// its own, made of name: using a name twice in one run of the handler is an error. The
// nonce travels in the sealed state, which only servers with the key can read.
func Nonce(ctx context.Context, name string) (string, error) {
	return Memo(ctx, "nonce "+name, func(context.Context) (string, error) {
		var random [nonceBytes]byte
		rand.Read(random[:])
		return base64.RawURLEncoding.EncodeToString(random[:]), nil
	})
}
