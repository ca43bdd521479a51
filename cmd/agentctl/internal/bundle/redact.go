// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"bytes"
	"encoding/json"
	"regexp"
)

const removed = "[removed]"

// What looks like a credential, however it is written: in lines that each have a prefix, in JSON, and in JSON within JSON.
var (
	// keys are private keys, to the end of the text where they have no end.
	keys   = regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----.*?(-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----|\z)`)
	keyEnd = regexp.MustCompile(`-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----`)
	// encoded is any PEM in base64, also in lines.
	encoded = regexp.MustCompile(`LS0tLS1CRUdJTi[A-Za-z0-9+/=]*((\\[nr]|\s)+[A-Za-z0-9+/=]{40,})*((\\[nr]|\s)+[A-Za-z0-9+/]*={1,2})?`)
	// tokens follow a word that says so, or look like one.
	tokens = regexp.MustCompile(`((?i:token|password|client-key-data)[\\"']*\s*[:=]\s*)(\\*"[^"\n]*"\S*|\S+)|(?i:bearer )[A-Za-z0-9._~+/=-]{8,}|eyJ[A-Za-z0-9_-]{7,}(\.[A-Za-z0-9_-]*)*`)

	// pairs are the strings of a JSON document, those that are a field's name with its value if that is a string.
	pairs  = regexp.MustCompile(`("(?:[^"\\]|\\.)*")(?:(\s*:\s*)("(?:[^"\\]|\\.)*"))?`)
	secret = regexp.MustCompile(`(?i:token|password|client-key-data)$`)
)

// withoutCredentials is a text without them. A JSON document stays one.
func withoutCredentials(data []byte) []byte {
	if !json.Valid(data) {
		return redacted(data)
	}
	return pairs.ReplaceAllFunc(data, func(pair []byte) []byte {
		at := pairs.FindSubmatch(pair)
		name, between, value := at[1], at[2], at[3]
		if value == nil {
			return redactedString(name)
		}
		if secret.Match(name[1:len(name)-1]) && len(value) > len(`""`) {
			value = []byte(`"` + removed + `"`)
		}
		return bytes.Join([][]byte{redactedString(name), between, redactedString(value)}, nil)
	})
}

// redactedString is a string of JSON without credentials.
func redactedString(quoted []byte) []byte {
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return []byte(`"` + removed + `"`)
	}
	kept := redacted([]byte(text))
	if string(kept) == text {
		return quoted
	}
	out, err := json.Marshal(string(kept))
	if err != nil {
		return []byte(`"` + removed + `"`)
	}
	return out
}

func redacted(text []byte) []byte {
	text = keys.ReplaceAll(text, []byte(removed))
	if ends := keyEnd.FindAllIndex(text, -1); ends != nil { // the text begins within a key
		text = append([]byte(removed), text[ends[len(ends)-1][1]:]...)
	}
	text = encoded.ReplaceAll(text, []byte(removed))
	return tokens.ReplaceAll(text, []byte("${1}"+removed))
}
