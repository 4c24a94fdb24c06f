"""The only room that talks to Kafka."""
