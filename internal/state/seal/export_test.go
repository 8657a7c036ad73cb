package seal

// SealRandom seals with the given 24 bytes where Seal draws random ones, so that test vectors come
// out the same every time.
func (r *Keyring) SealRandom(plaintext []byte, random [saltSize + nonceSize]byte) string {
	return r.sealWith(plaintext, func(b []byte) { copy(b, random[:]) })
}
