// Package sdk compares the adapters of models with the official SDKs of their providers, which the product does not
// link: it is a module of its own.
//
// Promises: for the same question, adapter and SDK send the same request, but for headers that describe the SDK; from
// the same stream they read the same answer; a stream that the adapter takes for whole is whole to the SDK as well; a
// refusal has the same status for both. What telemetry exports over OTLP is what OpenTelemetry's own exporters send.
// Servers are on 127.0.0.1 and no key is needed.
package sdk
