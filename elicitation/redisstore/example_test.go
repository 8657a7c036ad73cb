package redisstore_test

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/redisstore"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

// A forwarder: the keys come from the environment of the fleet, as keys.KeyringFromEnv reads
// them.
func ExampleNew() {
	client := redis.NewClient(&redis.Options{
		Addr: "redis.internal:6379", ContextTimeoutEnabled: true,
	})
	defer client.Close()
	store, err := redisstore.New(client, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	key, err := keys.NewKey("k1", []byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		fmt.Println(err)
		return
	}
	ring, err := keys.NewKeyring(key)
	if err != nil {
		fmt.Println(err)
		return
	}
	router, err := elicitation.New(&elicitation.Options{
		Store: store, Keys: ring.Derive(elicitation.KeyPurpose),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("pending:", router.Pending())
	// Output: pending: 0
}

// Without a client there is no store.
func ExampleNew_noClient() {
	_, err := redisstore.New(nil, nil)
	fmt.Println(err)
	// Output: redisstore: there is no client
}
