package keyringstore_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/client/oauth/keyringstore"
)

// newLogin keeps the tokens of a person as long as they keep the machine.
func newLogin(endpoint string) (*oauth.Source, error) {
	configuration, err := os.UserConfigDir()
	if err != nil {
		return nil, err
	}
	// a keyring that is locked asks for a password
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	folder := filepath.Join(configuration, "notes", "logins")
	store, err := keyringstore.New(ctx, folder, "Notes")
	if err != nil {
		return nil, err
	}
	return oauth.New(endpoint, &oauth.Options{Interaction: &oauth.Loopback{}, Store: store})
}

func Example() {
	login, err := newLogin("https://mcp.example.com/mcp")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(login)
}
