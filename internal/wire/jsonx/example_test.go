package jsonx_test

import (
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

func ExampleCheck() {
	fmt.Println(jsonx.Check([]byte(`{"action":"decline","Action":"accept"}`)))
	fmt.Println(jsonx.Check([]byte(`{"action":"decline","\u0061ction":"accept"}`)))
	// Output:
	// <nil>
	// json: duplicate member "action" at byte 20
}

func ExampleMembers() {
	message := []byte(`{"jsonrpc":"2.0", "id":7, "method":"tools/call"}`)
	if err := jsonx.Check(message); err != nil {
		fmt.Println(err)
		return
	}
	err := jsonx.Members(message, func(key, value []byte) error {
		fmt.Printf("%s: %v %s\n", key, jsonx.KindOf(value), value)
		return nil
	})
	fmt.Println(err)
	// Output:
	// jsonrpc: string "2.0"
	// id: number 7
	// method: string "tools/call"
	// <nil>
}

func ExampleAppendCanonical() {
	a, _ := jsonx.AppendCanonical(nil, []byte(`{"b": 1.0, "a": "\u0041"}`))
	b, _ := jsonx.AppendCanonical(nil, []byte(`{"a":"A","b":10e-1}`))
	fmt.Printf("%s\n%s\n", a, b)
	// Output:
	// {"a":"A","b":1}
	// {"a":"A","b":1}
}
