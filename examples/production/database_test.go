package main

import (
	"strings"
	"testing"
)

// Without a driver the start fails and says where to add one: this module has none.
func TestDatabaseWithoutADriver(t *testing.T) {
	if shared, err := openShared(t.Context(), ""); shared != nil || err != nil {
		t.Errorf("no address: got %v, %v", shared, err)
	}
	_, err := openShared(t.Context(), "postgres://bank@127.0.0.1:1/bank")
	if err == nil || !strings.Contains(err.Error(), "database.go") {
		t.Errorf("got %v, want a hint at the import", err)
	}
}
