package seal

// AppendSealRandom seals with the given 24 bytes where AppendSeal draws random
// ones, so that test vectors come out the same every time.
func (r *Keyring) AppendSealRandom(dst, plaintext []byte,
	random [saltSize + nonceSize]byte) []byte {
	return r.appendSeal(dst, plaintext, func(b []byte) { copy(b, random[:]) })
}
