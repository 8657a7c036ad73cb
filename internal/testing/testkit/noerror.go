package testkit

import "testing"

// NoError ends the test with err if it is not nil.
func NoError(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}
