package seal_test

import (
	"strconv"
	"testing"
)

var benchSizes = []int{128, 200, 1024, 16384}

func BenchmarkSeal(b *testing.B) {
	ring := mustRing(b, mustKey(b, "k1", 1))
	for _, size := range benchSizes {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			plaintext := make([]byte, size)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				ring.Seal(plaintext)
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	ring := mustRing(b, mustKey(b, "k1", 1))
	for _, size := range benchSizes {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			token := ring.Seal(make([]byte, size))
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				if _, err := ring.Open(token, len(token)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOpenRefused measures a flood of invented tokens.
func BenchmarkOpenRefused(b *testing.B) {
	ring := mustRing(b, mustKey(b, "k1", 1))
	forged := []byte(ring.Seal(make([]byte, 200)))
	if c := &forged[len(forged)/2]; *c == 'A' {
		*c = 'B'
	} else {
		*c = 'A'
	}
	token := string(forged)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ring.Open(token, len(token)); err == nil {
			b.Fatal("opened")
		}
	}
}
