// Package listen is a device in the terminal: it shows notifications, speaks them, and sends what the person answers.
//
// It reports truthfully: displayed after the card was written, spoken after speech ended, suppressed when the person
// wants quiet, and nothing that did not happen. An answer counts as sent when the relay has stored it. With JSON it
// reports nothing by itself but that it holds a notification: the program that reads the lines says what it did with
// them.
package listen
