package seal

// SealRandom is Seal with given random bytes, for reproducible test vectors.
func (r *Keyring) SealRandom(plaintext []byte, random [saltSize + nonceSize]byte) string {
	return r.sealWith(plaintext, func(b []byte) { copy(b, random[:]) })
}
