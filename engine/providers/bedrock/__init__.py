"""The AWS Bedrock Converse API."""
