//go:build !keyring

package keyringstore_test

func runAsProgram() bool { return false }
