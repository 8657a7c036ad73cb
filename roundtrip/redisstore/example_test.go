package redisstore_test

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/roundtrip/redisstore"
)

// A forwarder: the keys come from the environment of the fleet, as keys.KeyringFromEnv reads
// them.
func ExampleNewQuestionStore() {
	client := redis.NewClient(&redis.Options{
		Addr: "redis.internal:6379", ContextTimeoutEnabled: true,
	})
	defer client.Close()
	store, err := redisstore.NewQuestionStore(client, nil)
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
func ExampleNewQuestionStore_noClient() {
	_, err := redisstore.NewQuestionStore(nil, nil)
	fmt.Println(err)
	// Output: redisstore: there is no client
}
