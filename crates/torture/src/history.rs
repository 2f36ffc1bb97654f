//! Every call of every client: when it was made, how often it was sent, what was answered.
