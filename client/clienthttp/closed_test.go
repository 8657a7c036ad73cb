package clienthttp_test

import (
	"net/http"
	"testing"
	"testing/synctest"
)

// TestCloseEndsListening: a session that nobody closes does not try to listen
// again and again once its transport has been closed. Synctest waits for its
// goroutine.
func TestCloseEndsListening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &oldServer{id: "s", listen: answer(http.StatusOK, stream, "")} // breaks at once
		_, transport := s.open(t, &asked{})
		synctest.Wait() // it is about to try again
		if err := transport.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
