package main

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/png"
	"math"

	"github.com/rondo-mcp/rondo/protocol"
)

// picture draws a small gradient.
func picture() (*protocol.ImageContent, error) {
	const side = 16
	drawn := image.NewGray(image.Rect(0, 0, side, side))
	for x := range side {
		for y := range side {
			drawn.SetGray(x, y, color.Gray{Y: uint8(x * y)})
		}
	}
	var file bytes.Buffer
	if err := png.Encode(&file, drawn); err != nil {
		return nil, err
	}
	return &protocol.ImageContent{Data: file.Bytes(), MIMEType: "image/png"}, nil
}

// sound plays a concert A for a tenth of a second: 16 bit, mono, in the RIFF
// container that audio/wav means.
func sound() *protocol.AudioContent {
	const rate, samples, depth = 8000, 800, 2 // per second, in all, bytes
	le := binary.LittleEndian
	file := append([]byte("RIFF"), le.AppendUint32(nil, 36+samples*depth)...)
	file = append(file, "WAVEfmt "...)
	file = le.AppendUint32(file, 16) // length of the format that follows
	file = le.AppendUint16(file, 1)  // plain samples
	file = le.AppendUint16(file, 1)  // channel
	file = le.AppendUint32(file, rate)
	file = le.AppendUint32(file, rate*depth)
	file = le.AppendUint16(file, depth)
	file = le.AppendUint16(file, depth*8)
	file = append(file, "data"...)
	file = le.AppendUint32(file, samples*depth)
	for i := range samples {
		amplitude := math.Sin(2 * math.Pi * 440 * float64(i) / rate)
		file = le.AppendUint16(file, uint16(int16(amplitude*math.MaxInt16)))
	}
	return &protocol.AudioContent{Data: file, MIMEType: "audio/wav"}
}
