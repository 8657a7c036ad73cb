// Package telemetry traces flows with OpenTelemetry.
package telemetry
