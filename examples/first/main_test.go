package main

import (
	"testing"

	"github.com/rondo-mcp/rondo/roundtrip/roundtriptest"
)

func TestBook(t *testing.T) {
	call := roundtriptest.Tool("book", Booking{Restaurant: "Chez Ada"})
	booked := roundtriptest.Flow{
		Name:    "booked",
		Request: call,
		Answers: roundtriptest.Answers{
			"party": roundtriptest.Accept(Party{People: 3}),
			"table": roundtriptest.Accept(Table{Place: "window"}),
		},
		Want: "Chez Ada: a table for 3, window",
	}
	declined := roundtriptest.Flow{
		Name:    "declined",
		Request: call,
		Answers: roundtriptest.Answers{"party": roundtriptest.Decline()},
		Fails:   "declined: party",
	}
	subject := roundtriptest.Server(newServer)
	roundtriptest.Run(t, subject, booked, declined)
	roundtriptest.Attack(t, subject, booked)
}
